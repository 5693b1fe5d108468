-- lists.sql - what `attune show --peers` asks, beside the tables of compare/peers.sql.

-- The scenarios that it shows, with the least time of our plans and the time of the header's (NULL: not known).
CREATE TABLE ours(id INTEGER PRIMARY KEY, model, page_size, kv_dtype, batch, best REAL, header REAL);
CREATE VIEW paired AS
	SELECT ours.*, peer.id AS peer_id, name, version, iif(is_e4m3, '; q and weights in E4M3', '') AS note, us,
		us / best AS ratio
	FROM ours JOIN peer_best USING (model, page_size, kv_dtype, batch) JOIN peer ON name = peer_best.peer;
CREATE VIEW fastest AS
	SELECT *, min(us) FROM paired GROUP BY id;
CREATE VIEW rows AS
	SELECT model, page_size, batch, best AS best_us, header AS header_us, us AS peer_us, name || note AS peer, ratio
	FROM fastest ORDER BY id;
-- How the fastest of all and each kernel stand to ours.
CREATE VIEW standing AS
	WITH one AS (SELECT -1 AS place, 'the fastest' AS name, '' AS about, ratio FROM fastest
		UNION ALL SELECT peer_id, name, iif(version = '', '', '; ' || version) || note, ratio FROM paired)
	SELECT printf('%-12s %.3f x ours, geometric mean of %d; ours is ahead on %d%s', name, exp(avg(ln(ratio))),
		count(*), sum(ratio > 1), about) AS line
	FROM one GROUP BY place ORDER BY place;
CREATE VIEW together AS
	SELECT printf('a choice among all kernels would take %.4f x ours alone', exp(avg(min(0, ln(ratio))))) AS line
	FROM fastest HAVING count(*);
