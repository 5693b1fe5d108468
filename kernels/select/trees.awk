# trees.awk - writes the trees of generated headers as data, for kernels that walk them: the nodes
# of attune_<gpu>_<decision>() in preorder, as struct selector_node.
#
#   if (f->max_seq <= 4096)          NODE(ATTUNE_FEATURE_max_seq, 2, 4096)
#           return 1;                NODE(-1, 0, 1)
#   return 0;                        NODE(-1, 0, 0)
#
# A node's second number is the node for features above the threshold; the next node is for those
# at or below it. Since nodes are in preorder, braces and else are not read. A header without an
# early tree gets one leaf: SAYS_OWN.

BEGIN { count = depth = 0 }

function flush_gpu(    i)
{
	if (gpu == "")
		return
	delete id
	if (!has_early) {
		printf "#define ATTUNE_%s_ROOT_early %d\n", gpu, count
		add(-1, -1)
	}
	printf "#define ATTUNE_%s_NODES(NODE)", gpu
	for (i = 0; i < count; i++)
		printf " \\\n\tNODE(%s, %d, %s)", feature[i], above[i], value[i]
	printf "\n"
	count = depth = has_early = 0
}

function add(of, number)
{
	feature[count] = of
	above[count] = 0
	value[count++] = number
}

FNR == 1 {
	flush_gpu()
	gpu = FILENAME
	sub(/.*attune_/, "", gpu)
	sub(/\.h$/, "", gpu)
	name = "attune_" gpu "_"
	gpu = toupper(gpu)
}
$1 == "ATTUNE_SELECT" && index($3, name) == 1 && $3 !~ /_plugin\(/ {
	decision = substr($3, length(name) + 1)
	sub(/\(.*/, "", decision)
	printf "#define ATTUNE_%s_ROOT_%s %d\n", gpu, decision, count
	has_early = has_early || decision == "early"
	inside = 1
}
inside && /if \(f->/ {
	match($0, /f->[a-z_]* <= -?[0-9]+/)
	split(substr($0, RSTART + 3, RLENGTH - 3), side, " <= ")
	has_below[depth] = 0
	open[depth++] = count
	add("ATTUNE_FEATURE_" side[1], side[2])
}
/^\tCHOICE\(/ {
	sub(/^\tCHOICE\( */, "")
	split($0, part, ", ")
	id[part[2]] = part[1]
}
/^\t[a-z0-9_]+ = -[0-9]+,? \/\*/ {
	sub(/,$/, "", $3)
	id[substr($1, length(gpu) + 2)] = $3
}
inside && $1 == "return" {
	sub(/;.*/, "", $2)
	add(-1, $2 ~ /^-?[0-9]+$/ ? $2 : id[substr($2, length(gpu) + 2)])
	while (depth && has_below[depth - 1])
		depth--
	if (depth) {
		has_below[depth - 1] = 1
		above[open[depth - 1]] = count
	}
}
/^}/ { inside = 0 }
END { flush_gpu() }
