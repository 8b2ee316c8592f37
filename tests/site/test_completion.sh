#!/usr/bin/env bash
# What shells complete, by the scripts that `refrelay completion` prints.
. "$(dirname "$0")/../lib/tap.sh"

# What bash offers for the last word.
completes() { # WORD...
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_refrelay || true
	printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}

has_words() { # OFFERED WORD...
	local offered=" $1 " word
	shift
	for word; do
		[[ $offered == *" $word "* ]] || fail "$word is not in:$offered"
	done
}

lacks_words() { # OFFERED WORD...
	local offered=" $1 " word
	shift
	for word; do
		[[ $offered != *" $word "* ]] || fail "$word is in:$offered"
	done
}

list_commands() {
	"$REFRELAY" help | sed -n 's/^  \([a-z]*\) .*/\1/p'
}

bash_completes() {
	local offered command

	"$REFRELAY" completion bash >script
	. ./script
	complete -p refrelay >/dev/null
	# shellcheck disable=SC2046
	has_words "$(completes refrelay '')" $(list_commands) --version -c
	[ "$(completes refrelay rep)" = 'replicate repository ' ]
	[ "$(completes refrelay -c file rep)" = 'replicate repository ' ]
	[ "$(completes refrelay help no-such)" = ' ' ]
	[ "$(completes refrelay help vers)" = 'version ' ]
	[ "$(completes refrelay lease rel)" = 'release ' ]
	offered=$(completes refrelay lease release KEY --)
	has_words "$offered" --fence --reason --help
	lacks_words "$offered" --wait list
	[ "$(completes refrelay repository list --state he)" = 'held ' ]
	[ "$(completes refrelay repository list --state = he)" = 'held ' ]
	[ "$(completes refrelay replicate -j '')" = ' ' ]
	[ "$(completes refrelay replicate -j 4 --del)" = '--delete ' ]
	[ "$(completes refrelay lease run KEY -- --)" = ' ' ]
	[ "$(completes refrelay completion z)" = 'zsh ' ]
}

# Whatever the help says of a command is completed by all three.
nothing_is_left_out() {
	local shell command option

	for shell in bash fish zsh; do
		"$REFRELAY" completion "$shell" >"$shell"
	done
	for command in $(list_commands); do
		[ "$command" != help ] || continue
		"$REFRELAY" "$command" --help | grep -o '^ *\(-., \)*--[a-z][a-z-]*' |
			sed 's/.*--//' | sort -u >options || [ "$command" = completion ]
		grep -q "'$command [a-z ]*'\*\?) echo " bash || fail "bash lacks $command"
		while read -r option; do
			grep "^	'$command " bash | grep -q -e " --$option[ ']" ||
				fail "bash lacks $command --$option"
			grep "__refrelay_in $command[ ']" fish | grep -q -e "-l $option " ||
				fail "fish lacks $command --$option"
			sed -n "/^		$command)/,/;;/p" zsh | grep -q -e "--$option[=[]" ||
				fail "zsh lacks $command --$option"
		done <options
	done
}

fish_completes() {
	command -v fish >/dev/null || skip "fish is not installed"
	"$REFRELAY" completion fish >script.fish
	cat >ask.fish <<-'END'
		source script.fish
		for line in $argv
			echo "$line:" (complete -C "$line" | string split -f 1 \t | sort | string join ' ')
		end
	END
	fish --no-config ask.fish 'refrelay rep' 'refrelay lease rel' 'refrelay -c x lease s' \
		'refrelay lease release --f' 'refrelay lease list --f' \
		'refrelay repository list --state he' 'refrelay help vers' >said 2>&1
	diff said - <<-'END'
		refrelay rep: replicate repository
		refrelay lease rel: release
		refrelay -c x lease s: show
		refrelay lease release --f: --fence
		refrelay lease list --f:
		refrelay repository list --state he: held
		refrelay help vers: version
	END
}

# By a terminal of its own: zsh's completions work nowhere else.
zsh_completes() {
	command -v zsh >/dev/null || skip "zsh is not installed"
	mkdir functions
	"$REFRELAY" completion zsh >functions/_refrelay
	zsh -n functions/_refrelay
	cat >ask.zsh <<-'END'
		zmodload zsh/zpty
		zpty shell zsh -f -i
		typeset -i tries
		ask() {
			local line text
			zpty -w -n shell "$1"$'\t'
			while (( tries++ < 300 )); do
				if zpty -r -t shell line; then
					text+=$line
					[[ $text == *"$2"* ]] && { print -r -- "found $2"; return }
				else
					zselect -t 10
				fi
			done
			print -r -- "lacks $2 in: ${(V)text}"
		}
		zmodload zsh/zselect
		zpty -w shell "fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -D; PS1=; print READY\$((1+1))"
		ask '' READY2
		ask 'refrelay repl' 'icate'
		zpty -w -n shell $'\x15'
		ask 'refrelay lease rel' 'ease'
		zpty -w -n shell $'\x15'
		ask 'refrelay lease release --fe' 'nce'
		zpty -d shell
	END
	TERM=dumb zsh -f ask.zsh >said
	diff said - <<-'END'
		found READY2
		found icate
		found ease
		found nce
	END
}

tap_test 'bash completes commands, verbs, options and their words' bash_completes
tap_test 'fish does' fish_completes
tap_test 'zsh does' zsh_completes
tap_test 'what the help says of any command is completed' nothing_is_left_out
tap_done
