# Types LINE and a tab twice into an interactive zsh, and prints what it shows.
zmodload zsh/zpty
zpty shell "FPATH_OWN=$FPATH_OWN zsh -f -i"
zpty -w shell 'PS1= ; LISTMAX=1000; fpath=($FPATH_OWN $fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep; echo READY'
zpty -r shell text '*READY*READY*' || exit 1
zpty -w -n shell "$LINE"$'\t\t'
sleep 0.5
text=
while zpty -r -t shell part; do text+=$part; done
zpty -d shell
print -r -- "$text"
