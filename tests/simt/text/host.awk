# SPDX-License-Identifier: Apache-2.0
# host.awk - a file of kernels/gpu as the host's compiler takes it, with all line numbers
# kept: functions with asm become declarations, extern __shared__ arrays pointers, vectors
# of 16-bit floats, which it has not, structs, and gpu_nvidia.h includes gpu_emulated.h at
# its end.
#
#   awk -v emulated=gpu_emulated.h -f host.awk gpu_nvidia.h >host/gpu_nvidia.h

BEGIN {
	while ((getline line < emulated) > 0)
		if (line ~ /^(template.*)?DEVICE /)
			known[name_of(line)] = 1
}

function name_of(text)
{
	sub(/^template *<[^>]*>/, "", text)
	sub(/\(.*/, "", text)
	sub(/.*[ *&]/, "", text)
	return text
}

# The last #endif of the guard is the last line that a file has, and comes last.
function put(text)
{
	if (held != "")
		printf "%s", held
	held = text "\n"
}

function put_function(    head, name)
{
	if (body !~ /[^a-z_0-9]asm( volatile)?[ (]/) {
		put(substr(body, 1, length(body) - 1))
		return
	}
	head = body
	gsub(/\n/, " ", head)
	sub(/ *\{.*/, "", head)
	name = name_of(head)
	if (!(name in known))
		head = head " __attribute__((error(\"" name " has no emulation in gpu_emulated.h\")))"
	gsub(/[^\n]/, "", body)
	put(head ";" substr(body, 1, length(body) - 1))
}

/^(template|DEVICE|__device__|static __device__)/ && !inside { inside = 1; body = "" }

inside {
	body = body $0 "\n"
	if ($0 ~ /^}/ || $0 ~ /^[^\/]*\{.*}$/ || (body !~ /\{/ && $0 ~ /;$/)) {
		inside = 0
		shared_pointers()
		put_function()
	}
	next
}

function shared_pointers(    n, lines, i, out)
{
	n = split(body, lines, "\n")
	out = ""
	for (i = 1; i < n; i++)
		out = out pointer(lines[i]) "\n"
	body = out
}

function pointer(line,    type, name)
{
	if (line !~ /extern +__shared__/)
		return line
	sub(/extern +__shared__ */, "", line)
	gsub(/__align__\([0-9]+\) */, "", line)
	gsub(/alignas\([0-9]+\) */, "", line)
	gsub(/^[ \t]+|\[\] *;.*$/, "", line)
	name = type = line
	sub(/.*[ *]/, "", name)
	type = substr(line, 1, length(line) - length(name))
	if (file_scope)
		return "#define " name " ((" type " *)simt_dynamic())"
	return type " *const " name " = (" type " *)simt_dynamic();"
}

/^typedef (_Float16|__bf16) .*vector_size/ {
	split($0, word, /[ ()]+/)
	for (i in word)
		if (word[i] == "vector_size")
			break
	$0 = "typedef simt_vector<" word[2] ", " word[i + 1] "> " word[3] ";"
}

{
	file_scope = $0 ~ /^[^ \t]/
	put(pointer($0))
	file_scope = 0
}

END {
	if (FILENAME ~ /\/gpu_nvidia\.h$/)
		printf "#include \"gpu_emulated.h\"\n"
	printf "%s", held
}
