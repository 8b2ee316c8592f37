# Prints each statement `A && B` of shell functions, in files that are formatted as these
# tests are, of which nobody heeds that A fails: `set -e` does not, unless it is the last
# one of its function, or of a subshell. What is meant as `if`, so ends in `return`,
# `continue`, `fail` or a block, is none of them; nor is what has an `||`.
#
# usage: awk -f unheeded.awk FILE...

# Adds to `bare` what is left of a line without comments, quoted text and all in
# parentheses; `quote` and `depth` say what is still open at its end.
function strip(line,    i, c, before) {
	before = " "
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (c == "\\" && quote != "\047")
			i++
		else if (quote != "" && c == quote)
			quote = ""
		else if (quote == "\"" && c == "$" && substr(line, i + 1, 1) == "(") {
			i++
			open_parenthesis()
		} else if (quote != "")
			continue
		else if (c == "\"" || c == "\047") {
			quote = c
			add("Q")
		} else if (c == "#" && before ~ /[ \t;]/)
			return
		else if (c == "(")
			open_parenthesis()
		else if (c == ")" && depth > 0)
			quote = outer[depth--]
		else
			add(c)
		before = c
	}
}

function open_parenthesis() {
	outer[++depth] = quote
	quote = ""
	add("P")
}

function add(text) {
	if (depth == 0)
		bare = bare text
}

# What waits to be judged is at a depth of tabs; `is_over`: the branch in which it stood has
# ended, and the rest of its `if` or `case` does not come behind it.
function forget(i) {
	delete tabs[i]
}

function judge(i, depth_now, word, text) {
	if (depth_now == 0)
		forget(i) # the function ends, whose status it is
	else if (is_over[i] && depth_now > tabs[i])
		return
	else if (word == ";;" && depth_now <= tabs[i]) {
		tabs[i] = depth_now - 1
		is_over[i] = 1
	} else if (depth_now > tabs[i])
		return
	else if (word == ")" && depth_now < tabs[i])
		forget(i) # likewise, of a subshell
	else if (word ~ /^(else|elif)$/ && (depth_now < tabs[i] || is_over[i])) {
		tabs[i] = depth_now
		is_over[i] = 1
	} else if (word ~ /^(fi|esac|[}])$/ && (depth_now < tabs[i] || is_over[i])) {
		tabs[i] = depth_now
		is_over[i] = 0
		if (text ~ /&&|\|\|/)
			forget(i)
	} else if (!is_over[i]) {
		# Those have its status, or ask for it.
		if (text !~ /^(exit|return)$|\$\?/)
			print said[i]
		forget(i)
	}
}

function take(text,    depth_now, word, i) {
	match(text, /^\t*/)
	depth_now = RLENGTH
	text = substr(text, depth_now + 1)
	sub(/[ \t]+$/, "", text)
	if (text == "")
		return
	match(text, /^(;;|[^ ;]*)/)
	word = substr(text, 1, RLENGTH)
	for (i in tabs)
		judge(i, depth_now, word, text)
	if (depth_now == 0 || text !~ /&&/ || text ~ /\|\||&$|;;$/)
		return
	if (word ~ /^(if|elif|while|until|for|case|else|then|do|done|fi|esac|[{})].*)$/)
		return
	if (text ~ /&& *((return|continue|break|exit|exec|fail|skip)( [^&]*)?|[{][^&]*)$/)
		return
	tabs[++count] = depth_now
	is_over[count] = 0
	sub(/^\t+/, "", source)
	said[count] = FILENAME ":" first ": one statement a line: " source
}

function begin() {
	bare = source = ""
	first = FNR
}

# What is open at the end of a file has kept the rest of it from being looked at.
function end_file() {
	if (depth > 0 || quote != "" || document != "")
		print before_file ": not understood to its end"
	before_file = FILENAME
}

FNR == 1 {
	end_file()
	quote = document = ""
	depth = 0
	split("", tabs)
	begin()
}
document != "" { # a here-document
	line = $0
	sub(/^\t+/, "", line)
	if (line == document) {
		document = ""
		if (source == "")
			first = FNR + 1
	}
	next
}
{
	line = $0
	if (source != "")
		sub(/^\t+/, "", line)
	is_plain = depth == 0 && quote == ""
	source = source == "" ? line : source " " line
	if (is_plain && line ~ /^\t*\)/) {
		sub(/\).*/, ")", line)
		bare = line
	} else {
		if (is_plain) # a subshell: its lines are looked at, too
			sub(/^\t*\($/, "P", line)
		strip(line)
	}
	if (match($0, /<<-?[\047"]?[A-Za-z_][A-Za-z_0-9]*/) && $0 !~ /<<</) {
		document = substr($0, RSTART, RLENGTH)
		gsub(/[<\047"-]/, "", document)
	}
	if (depth > 0 || quote != "" || bare ~ /(&&|\|)[ \t]*$/ || line ~ /\\$/)
		next
	take(bare)
	begin()
	first = FNR + 1
}
END {
	end_file()
}
