-- SPDX-License-Identifier: Apache-2.0
-- style.sql - what all pictures of a database say.
SELECT 1 AS "set", device, model, dtype, protocol,
	iif(pairs, printf('A/A noise %.1f, %.1f, %.1f %% (<20 µs, <200 µs, above)', short, medium, long),
		printf('noise taken as %.1f %%: no A/A pairs', short)) AS noise_text,
	page_size, scenarios AS num_scenarios, max(short, medium, long) AS noise, with_stale AS stale
FROM counted, shown, (SELECT sum(pairs) AS pairs, 100 * max(iif(below = 20, floor, NULL)) AS short,
	100 * max(iif(below = 200, floor, NULL)) AS medium, 100 * max(iif(below = 0, floor, NULL)) AS long FROM noise);
