/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - messages and progress on stderr, and the signals that interrupt. stdout is for
 * data. */
#include "base.h"
#include "text_rule.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double redraw_s = 0.1;
static double line_s = 10;

static struct {
	char what[80];
	double began, shown; /* seconds */
	double share;        /* of the work that is done */
	int drawn;           /* the terminal shows a line without its newline */
	int off;
	int ticks;           /* the thread of tick() runs */
	const char *part;    /* prefix, or NULL */
	double first, until; /* begin and end of everything; 0: not known */
} bar;
/* Protects `bar` and what is written to stderr. */
static pthread_mutex_t bar_mutex = PTHREAD_MUTEX_INITIALIZER;

volatile int interrupted;
static int num_complaints;

static void erase(void)
{
	if (bar.drawn)
		fputs("\r\033[K", stderr);
	bar.drawn = 0;
}

char *shown_text(const char *text)
{
	enum { LONGEST = 4 /* characters for a byte of the text */ };
	char *valid = utf8_text(text), *shown = valid ? malloc(LONGEST * strlen(valid) + 1) : NULL;
	char *to = shown;
	for (const char *s = valid; shown && *s;) {
		int code;
		const size_t n = control_character(s, &code);
		if (n)
			to += control_escape(to, code);
		else
			*to++ = *s;
		s += n ? n : 1;
	}
	free(valid);
	if (shown)
		*to = '\0';
	return shown;
}

/* Escapes the text, as it may quote files and arguments, and keeps it on one line. */
static void write_line(const char *format, va_list ap, int is_failure)
{
	char *text = NULL, *shown = NULL;
	if (vasprintf(&text, format, ap) >= 0)
		shown = shown_text(text);
	else
		text = NULL;
	pthread_mutex_lock(&bar_mutex);
	erase();
	fprintf(stderr, "attune: %s\n", shown ? shown : "out of memory");
	bar.shown = seconds_now();
	num_complaints += is_failure;
	pthread_mutex_unlock(&bar_mutex);
	free(text);
	free(shown);
}

void complain(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	write_line(format, ap, 1);
	va_end(ap);
}

void remark(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	write_line(format, ap, 0);
	va_end(ap);
}

int complaints(void)
{
	return num_complaints;
}

static int is_lost;

void output_lost(void)
{
	if (!is_lost)
		complain("no memory, or the output cannot be written: a part of it is missing");
	is_lost = 1;
}

int output_was_lost(void)
{
	return is_lost;
}

/* "8 s", "3:05", "2:00:07" */
static const char *clock_text(char *text, size_t size, double seconds)
{
	long s = lround(seconds);
	if (s < 60)
		snprintf(text, size, "%ld s", s);
	else if (s < 3600)
		snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
	else
		snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
	return text;
}

/* Writes the line if the last one was written long enough ago. */
static void show_progress(double t, int terminal)
{
	char spent[32], left[32] = "?";
	if (bar.off || t - bar.shown < (terminal ? redraw_s : line_s))
		return;
	bar.shown = t;
	clock_text(spent, sizeof spent, t - (bar.until > 0 ? bar.first : bar.began));
	if (bar.until > 0)
		clock_text(left, sizeof left, fmax(bar.until - t, 0));
	else if (bar.share >= 0.02) /* the first steps compile and load: they say little of the rest */
		clock_text(left, sizeof left, (t - bar.began) * (1 - bar.share) / bar.share);
	if (terminal)
		fputs("\r\033[K", stderr);
	fprintf(stderr, "%s%s", bar.part ? bar.part : "", bar.part ? ": " : "");
	if (*bar.what)
		fprintf(stderr, "%s %.0f%%, ", bar.what, floor(100 * bar.share));
	fprintf(stderr, "%s spent, %s left%s", spent, left, terminal ? "" : "\n");
	bar.drawn = terminal;
	fflush(stderr);
}

/* Repeats the line while the program does not call progress(). */
static void *tick(void *unused)
{
	for (;;) {
		const struct timespec nap = { .tv_nsec = (long)(1e9 * fmin(line_s / 20, 0.5)) };
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&bar_mutex);
		if (*bar.what || bar.part)
			show_progress(seconds_now(), 0);
		pthread_mutex_unlock(&bar_mutex);
	}
	return unused;
}

static void before_fork(void)
{
	pthread_mutex_lock(&bar_mutex);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&bar_mutex);
}

static void in_child(void)
{
	bar.ticks = 0; /* a fork copies no other thread */
	pthread_mutex_unlock(&bar_mutex);
}

static void prepare_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* The thread blocks signals: the other threads handle them. If it cannot be created, only
 * progress() writes lines. */
static void start_ticking(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_t thread;
	sigset_t all, before;
	if (bar.ticks || bar.off || isatty(STDERR_FILENO))
		return;
	pthread_once(&once, prepare_forks);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bar.ticks = !pthread_create(&thread, NULL, tick, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (bar.ticks)
		pthread_detach(thread);
}

void progress(const char *what, double done, double total)
{
	const double t = seconds_now();
	const int terminal = isatty(STDERR_FILENO);
	pthread_mutex_lock(&bar_mutex);
	if (strncmp(bar.what, what, sizeof bar.what - 1)) {
		erase();
		snprintf(bar.what, sizeof bar.what, "%s", what);
		bar.began = t;
		/* A terminal shows it at once, a log when its next line is due. */
		bar.shown = terminal ? 0 : bar.shown > 0 ? bar.shown : t;
	}
	bar.share = total > 0 ? fmin(fmax(done / total, 0), 1) : 0;
	show_progress(t, terminal);
	start_ticking();
	pthread_mutex_unlock(&bar_mutex);
}

void progress_until(double seconds)
{
	pthread_mutex_lock(&bar_mutex);
	bar.first = seconds_now();
	bar.until = seconds > 0 ? bar.first + seconds : 0;
	pthread_mutex_unlock(&bar_mutex);
}

void progress_part(const char *name)
{
	pthread_mutex_lock(&bar_mutex);
	bar.part = name;
	if (name && !(bar.shown > 0))
		bar.shown = bar.began = seconds_now();
	if (name)
		start_ticking();
	pthread_mutex_unlock(&bar_mutex);
}

void progress_off(int off)
{
	pthread_mutex_lock(&bar_mutex);
	bar.off = off;
	pthread_mutex_unlock(&bar_mutex);
}

void progress_every(double seconds)
{
	line_s = seconds;
}

void progress_end(void)
{
	pthread_mutex_lock(&bar_mutex);
	erase();
	fflush(stderr);
	bar.what[0] = '\0';
	pthread_mutex_unlock(&bar_mutex);
}

static void on_signal(int signal_number)
{
	(void)signal_number;
	interrupted = 1;
}

/* The first signal sets `interrupted`; a second of the same kind kills. No SA_RESTART, so that a
 * blocking wait returns. */
void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}
