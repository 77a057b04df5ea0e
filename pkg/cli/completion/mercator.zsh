#compdef COMMANDS
# zsh completion for the commands of Mercator: each completes its own command line.
local -a found
found=("${(@f)$(COMP_LINE="${words[1,CURRENT]}" $words[1] 2> /dev/null)}")
if [[ -z $found[1] ]]; then
  _files
else
  compset -P '*='
  if [[ $found[1] == *= ]]; then compadd -S '' -a found; else compadd -a found; fi
fi
