/* rules_file_words.h - an override file as lines and words, for rules_file.c. */
#ifndef KERNELS_SELECT_RULES_FILE_WORDS_H
#define KERNELS_SELECT_RULES_FILE_WORDS_H

struct reader {
	const char *path;
	const struct device_info *device;
	struct override *out;
	char *next, *end; /* of the text: what is not yet split into lines */
	char *at;         /* in the line: what is not yet split into words */
	int line;
};

/* "FILE:LINE: ..." as the last error; `found` is what stands there. Returns 0. */
__attribute__((format(printf, 3, 4))) int reader_wrong(struct reader *, const char *found,
						       const char *format, ...);
/* Steps to the next line that says something; 0 at the end. */
int reader_next_line(struct reader *);
/* Cuts off the line's next word; "" when there is none. */
const char *reader_word(struct reader *);
int reader_line_ends(struct reader *);
/* Whether the next word is `want`; `line` is what the whole line should be. */
int reader_expect(struct reader *, const char *want, const char *line);
/* A whole number of lo .. hi. */
int reader_number(struct reader *, const char *what, long long lo, long long hi, long long *value);

#endif
