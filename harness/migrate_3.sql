-- migrate_3.sql - gives a database before version 4 the table that version 4 added.

CREATE TABLE ceiling (run INTEGER, name TEXT, detail TEXT, value REAL, unit TEXT) STRICT;
