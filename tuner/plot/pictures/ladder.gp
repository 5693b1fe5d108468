# ladder.gp - latency of each rung, from the first kernel to the tuned choice.
array begin[3] = ['one sequence, or one of each kind', sprintf('%d sequences', many), sprintf('sequences of %d tokens', length)]
array panel[3] = ['whole prompts', 'as many decodes as prompts', 'decodes']
array lo[3] = [us0_lo, us1_lo, us2_lo]
array hi[3] = [us0_hi, us1_hi, us2_hi]
array dash[9] = [1, 1, 1, 1, 1, 2, 3, 4, 4]
array shade[9] = [grey, colour[1], colour[3], colour[2], blue, ink, colour[4], colour[6], faint]
set label 1 at screen 0.02,0.972
set label 3 at screen 0.98,0.972
set label 2 at screen 0.02,0.942
set label 1 sprintf('From the first kernel to the tuned choice, on %s', device)
set label 2 sprintf('%s. Each line is a step; the next one has all that those before it have.', what)
set key at screen 0.02,0.925 maxrows 2
set logscale xy
# The same tics without words, for the panels that share the first one's axis.
bare = "('' 1"
do for [e = 1:7] { bare = bare.sprintf(", '' %g", 10 ** e) }
line = 'with linespoints linecolor rgb shade[k + 0] linewidth (k == 5 ? 3 : 1.4) pointtype 7 pointsize 0.4 dashtype dash[k + 0]'
us_bar = bar(1, 2, 3)
legend = "for [k in seen] NaN @line title word(rungs, k + 0)"
set multiplot
do for [r = 0:2] {
	top = 0.845 - r * 0.285
	do for [i = 0:2] {
		set tmargin at screen top
		set bmargin at screen top - 0.205
		set lmargin at screen 0.07 + i * 0.31
		set rmargin at screen 0.07 + i * 0.31 + 0.28
		set yrange [lo[r + 1] / 1.5 : hi[r + 1] * 1.5]
		p = 3 * r + i
		x_from = word(x_lo, p + 1) + 0
		x_to = word(x_hi, p + 1) + 0
		set xrange [x_from / 1.2 : x_to * 1.2]
		eval 'set ytics '.(i ? bare.')' : time_tics(lo[r + 1], hi[r + 1]))
		eval 'set xtics '.token_tics(x_from, x_to)
		set title panel[i + 1] textcolor rgb ink offset 0,-0.5
		if (i == 0) { set ylabel begin[r + 1] textcolor rgb ink } else { unset ylabel }
		if (i == 1) { set xlabel (r == 2 ? 'sequences in the batch' : 'tokens of a sequence') textcolor rgb ink offset 0,0.3 } else { unset xlabel }
		if (r || i) { unset key }
		shown = ''
		do for [k in seen] { if (has(9 * (k - 1) + p)) { shown = shown.' '.k } }
		if (words(shown)) {
			plot for [k in shown] rows index 9 * (k - 1) + p @us_bar linecolor rgb shade[k + 0], \
				for [k in shown] rows index 9 * (k - 1) + p using 1:2 @line, @legend
		} else {
			set label 4 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
			plot @legend
			unset label 4
		}
		unset label 1; unset label 2; unset label 3
	}
}
unset multiplot
