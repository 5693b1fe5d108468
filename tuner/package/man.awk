# SPDX-License-Identifier: Apache-2.0
# man.awk - a man page from what a command prints for --help, by argp or as `attune --help` itself.
#
#   build/attune sweep --help | awk -v page=attune-sweep -v version=0.2.0 -f man.awk HELP -
#
# HELP has the output of `attune --help`: what it says of each command is the page's first line.

# Text as it is, for roff.
function plain(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	sub(/^[.']/, "\\\\\\&&", s)
	return s
}

function section(name) {
	print ".SH " name
	in_list = 0
}

# A line of text; indented ones stay as they are typed. What attune's own page says of an option is a paragraph.
function text(line) {
	if (line ~ /^ / && !typed) print ".PP\n.nf"
	if (line !~ /^ / && typed) print ".fi"
	typed = line ~ /^ /
	if (line == "" || (page == "attune" && line ~ /^(--|Exit)/)) print ".PP"
	if (line != "") print plain(line)
}

FNR == NR { # HELP: commands stand in lines that begin with two blanks
	if (!match($0, /^  [a-z]+( --[a-z]+)? +/)) next
	name = substr($0, 1, RLENGTH)
	gsub(/^ +| +$/, "", name)
	gsub(/ (--)?/, "-", name)
	about["attune-" name] = substr($0, RLENGTH + 1)
	pages[++count] = "attune-" name
	next
}
FNR == 1 {
	about["attune"] = "paged attention chosen by measurement"
	printf ".TH %s 1 \"\" \"attune %s\" \"attune\"\n.nh\n.ad l\n", toupper(page), version
	section("NAME")
	print plain(page " - " about[page])
	section("SYNOPSIS")
	print plain(substr($0, 8))
	section("DESCRIPTION")
	next
}
/^Mandatory or optional arguments/ { getline; next }
/^Examples?[,: ]/ || /^Examples?$/ {
	if (typed) print ".fi"
	typed = 0
	section("EXAMPLES")
	in_examples = 1
	if ($0 ~ /^Examples?:$/) next
}
# argp: an option, in column 2 or 6, and its text, from column 29 on, which may name options; a group's title
/^  (    )?-/ && page != "attune" {
	if (typed) print ".fi"
	typed = 0
	if (!in_list) section("OPTIONS")
	in_list = 1
	option = $0
	sub(/^ +/, "", option)
	rest = ""
	if (match(option, /   *[^ ]/)) {
		rest = substr(option, RSTART + RLENGTH - 1)
		option = substr(option, 1, RSTART - 1)
	} else if (substr($0, 29, 1) == " ") {
		rest = substr($0, 30)
		option = substr(option, 1, length(option) - length(rest) - 1)
	}
	print ".TP\n.B " plain(option)
	if (rest != "") print plain(rest)
	next
}
in_list && /^                             / {
	sub(/^ +/, "")
	print plain($0)
	next
}
/^ [^ ]/ && page != "attune" { # a group's title, of one or more lines; its first sentence is the heading
	if (!in_list) section("OPTIONS")
	in_list = 1
	title = title $0
	if (!/:$/) next
	sub(/^ /, "", title)
	sub(/:$/, "", title)
	first = index(title, ". ")
	print ".SS " plain(first ? substr(title, 1, first - 1) : title)
	if (first) print plain(substr(title, first + 2) ".")
	title = ""
	next
}
in_list && /^$/ { next }
in_examples && /^ / { shown = 1 }
in_list || (shown && /^[^ ]/) {
	if (typed) print ".fi"
	typed = in_examples = shown = 0
	section("NOTES")
}
{ text($0) }
END {
	if (typed) print ".fi"
	section("SEE ALSO")
	pages[0] = "attune"
	for (i = 0; i <= count; i++)
		if (pages[i] != page && (index(pages[i], page) == 1 || index(page, pages[i]) == 1)) {
			if (also) print also " ,"
			also = ".BR " plain(pages[i]) " (1)"
		}
	print also
}
