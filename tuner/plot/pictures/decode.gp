# SPDX-License-Identifier: Apache-2.0
# decode.gp - latency against batch size, a curve for each sequence length.
set label 1 sprintf('Decode latency on %s', device)
set label 2 sprintf('%s. Curves: tokens in each sequence.', what)
set logscale xy
set rmargin at screen 0.93
set xrange [batch_lo / 1.15 : batch_hi * 1.15]
set yrange [us_lo / 1.5 : us_hi * 1.5]
eval 'set xtics '.power_tics
eval 'set ytics '.time_tics(us_lo, us_hi)
set xlabel 'sequences in the batch'
set ylabel 'time of one attention layer'
n = words(lengths)
shade(i) = ordered[1 + (n > 1 ? (n - i) * 7 / (n - 1) : 2)]
# Ends that lie close make room for each other's label.
close(i, j) = j >= 1 && j <= n && word(ends_x, i) eq word(ends_x, j) && abs(log(word(ends_y, i) / word(ends_y, j))) < 0.4
do for [i = 1:n] {
	up = 0.25 * (close(i, i - 1) - close(i, i + 1))
	set label 10 + i word(lengths, i) at word(ends_x, i) + 0,word(ends_y, i) + 0 left offset 1,up textcolor rgb shade(i)
}
ci_bar = bar(1, 2, 4)
plot for [i = 1:n] rows index i - 1 using 1:3 with lines linecolor rgb shade(i) linewidth 1.2 dashtype (10, 6), \
	for [i = 1:n] rows index i - 1 @ci_bar linecolor rgb shade(i) linewidth 1, \
	for [i = 1:n] rows index i - 1 using 1:2 with linespoints linecolor rgb shade(i) linewidth 2 pointtype 7 pointsize 0.5, \
	NaN with linespoints linecolor rgb blue linewidth 2 pointtype 7 pointsize 0.5 title 'tuned choice', \
	NaN with lines linecolor rgb blue linewidth 1.2 dashtype (10, 6) title 'one fixed choice for all batches'
