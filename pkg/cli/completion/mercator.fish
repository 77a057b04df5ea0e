# fish completion for the commands of Mercator: each completes its own command line.
function __mercator
    set -l line (commandline -cp)
    set -l before (string match -r '^[^=]*=' -- (commandline -ct))
    env COMP_LINE="$line" (commandline -opc)[1] 2>/dev/null | string replace -r '^' -- "$before"
end
for command in COMMANDS
    complete -c $command -a '(__mercator)'
end
