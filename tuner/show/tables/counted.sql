-- SPDX-License-Identifier: Apache-2.0
-- counted.sql - what the database and the header have.
SELECT scenarios, times, stale AS "stale times", noisy AS "noisy times", leaves, choices, kernels FROM counted;
