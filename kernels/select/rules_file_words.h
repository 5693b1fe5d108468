/* rules_file_words.h - reads an override file line by line and word by word, for rules_file.c. */
#ifndef KERNELS_SELECT_RULES_FILE_WORDS_H
#define KERNELS_SELECT_RULES_FILE_WORDS_H

struct reader {
	const char *path;
	const struct device_info *device;
	struct override *out;
	char *next, *end; /* the text after the current line */
	char *at;         /* the rest of the line */
	int line;
};

/* Sets the last error to "FILE:LINE: \"found\"; ...". Returns 0. */
__attribute__((format(printf, 3, 4))) int reader_wrong(struct reader *, const char *found,
						       const char *format, ...);
/* Steps to the next line that is not empty; 0 at the end. */
int reader_next_line(struct reader *);
/* Takes the line's next word; "" at its end. */
const char *reader_word(struct reader *);
int reader_line_ends(struct reader *);
/* The next word must be `want`; `line`, what the whole line should be, is for the message. */
int reader_expect(struct reader *, const char *want, const char *line);
/* A whole number from lo to hi. */
int reader_number(struct reader *, const char *what, long long lo, long long hi, long long *value);

#endif
