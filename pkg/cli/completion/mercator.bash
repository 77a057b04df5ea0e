# bash completion for the commands of Mercator: each completes its own command line.
((BASH_VERSINFO[0] >= 4)) || return 0 # macOS has bash 3, without mapfile and compopt
_mercator() {
  mapfile -t COMPREPLY < <(COMP_LINE=$COMP_LINE COMP_POINT=$COMP_POINT "$1" 2> /dev/null)
  [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}
complete -o default -F _mercator COMMANDS
