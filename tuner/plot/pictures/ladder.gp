# ladder.gp - latency of each rung, from the first kernel to the tuned choice.
array begin[3] = ['one sequence, or one of each kind', sprintf('%d sequences', many), sprintf('sequences of %d tokens', length)]
array panel[3] = ['whole prompts', 'as many decodes as prompts', 'decodes']
array left[3] = [x0_lo, x1_lo, x2_lo]
array right[3] = [x0_hi, x1_hi, x2_hi]
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
length_tics = "('16' 16, '64' 64, '256' 256, '1k' 1024, '4k' 4096, '16k' 16384, '64k' 65536, '256k' 262144)"
# The same tics without words, for the panels that share the first one's axis.
bare = "('' 1"
do for [e = 1:7] { bare = bare.sprintf(", '' %g", 10 ** e) }
line = 'with linespoints linecolor rgb shade[k + 0] linewidth (k == 5 ? 3 : 1.4) pointtype 7 pointsize 0.4 dashtype dash[k + 0]'
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
		set xrange [left[r + 1] / 1.3 : right[r + 1] * 1.3]
		eval 'set ytics '.(i ? bare.')' : time_tics(lo[r + 1], hi[r + 1]))
		eval 'set xtics '.(r == 2 ? power_tics : length_tics)
		set title panel[i + 1] textcolor rgb ink offset 0,-0.5
		if (i == 0) { set ylabel begin[r + 1] textcolor rgb ink } else { unset ylabel }
		if (i == 1) { set xlabel (r == 2 ? 'sequences in the batch' : 'tokens of a sequence') textcolor rgb ink offset 0,0.3 } else { unset xlabel }
		if (r || i) { unset key }
		if (has(3 * r + i)) {
			plot for [k in seen] rows index 3 * r + i using 1:(column(1 + k)) @line, @legend
		} else {
			set label 4 'no such batches' at graph 0.5,0.5 center textcolor rgb faint
			plot @legend
			unset label 4
		}
		unset label 1; unset label 2; unset label 3
	}
}
unset multiplot
