/* csv.h - a CSV file that another program wrote, record by record. */
#ifndef HARNESS_GENERATE_CSV_H
#define HARNESS_GENERATE_CSV_H

#include <stdio.h>

/* Fields are separated by commas, semicolons or tabs: by what the first line has first. Blanks around
 * a field do not count. A field in quotes may have separators, line ends and doubled quotes. A byte
 * order mark of UTF-8 is skipped, and so are blank lines. */
struct csv {
	FILE *f;
	const char *path;
	char *text; /* the record; fields are cut out of it */
	size_t room;
	int line, next; /* number of the record's first line, and of the line behind it */
	char separator; /* 0 before the first record */
	char **field;   /* [num_fields] without blanks and quotes around them */
	int *column;    /* where each began in the record, from 1 */
	int num_fields, max_fields;
};

int csv_open(struct csv *, const char *path); /* 0 + complain */
/* 1: the next record; 0: the end; -1 + complain. */
int csv_next(struct csv *);
void csv_close(struct csv *);

#endif
