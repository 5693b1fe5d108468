-- SPDX-License-Identifier: Apache-2.0
-- noise.sql - how far two runs of one choice in one race differ (A/A): the 95th percentile, in percent.
SELECT iif(below, 'below ' || below || ' us', 'above') AS "times", pairs, 100 * floor AS "differ by, %" FROM noise;
