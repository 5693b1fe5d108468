/* SPDX-License-Identifier: Apache-2.0 */
/* t_damage.c - databases with flipped bits, lost pages and edited values: readers refuse them in one
 * to three lines; they never crash, hang or return other rows. */
#include "damage_fixture.h"

enum { FLIPS = 500, PAGES = 60, CUTS = 40 };

/* ---- random damage -------------------------------------------------------------------------- */
/* Many copies, each damaged by one random number. A sealed one that can be read has the right
 * rows. */
static void random_damage(const char *name, int copies, int is_sealed,
			  size_t (*damage)(unsigned char *, size_t, unsigned long long))
{
	unsigned long long expected = 0, dice = 1;
	char place[128];
	const char *path = stays(place, "copy.sqlite");
	int count[NUM_FOUND] = { 0 };
	size_t n;
	unsigned char *whole = bytes_of(name, &n), *copy = malloc(n);
	assert_non_null(copy);
	assert_true(read_rows(in_folder(name), &expected));
	for (int i = 0; i < copies; i++) {
		memcpy(copy, whole, n);
		write_bytes(path, copy, damage(copy, n, scrambled(dice += 0x9e3779b97f4a7c15ull)));
		const enum found found = find(path, is_sealed ? expected : 0, i % 4 == 0);
		if (found > REFUSED)
			fail_msg("%s, copy %d: %s: %s", name, i, found_names[found], said);
		count[found]++;
	}
	free(whole);
	free(copy);
	print_message("# %s: of %d copies %d are refused\n", name, copies, count[REFUSED]);
	assert_true(count[REFUSED] > 0);
}

static size_t flip_a_bit(unsigned char *bytes, size_t n, unsigned long long dice)
{
	bytes[dice / 8 % n] ^= (unsigned char)(1 << dice % 8);
	return n;
}

static size_t zero_a_page(unsigned char *bytes, size_t n, unsigned long long dice)
{
	memset(bytes + dice % (n / PAGE) * PAGE, 0, PAGE);
	return n;
}

static size_t cut_off(unsigned char *bytes, size_t n, unsigned long long dice)
{
	(void)bytes;
	return dice % n;
}

static void flipped_bits(void **state)
{
	(void)state;
	random_damage("sealed.sqlite", FLIPS / 2, 1, flip_a_bit);
	random_damage("open.sqlite", FLIPS / 2, 0, flip_a_bit);
}

static void lost_pages(void **state)
{
	(void)state;
	random_damage("sealed.sqlite", PAGES / 2, 1, zero_a_page);
	random_damage("open.sqlite", PAGES / 2, 0, zero_a_page);
	random_damage("sealed.sqlite", CUTS, 1, cut_off);
}

/* ---- the seal --------------------------------------------------------------------------------- */
/* Any value that is read and becomes another legal one. */
static void every_value_is_sealed(void **state)
{
	static const char *const edits[] = {
		"UPDATE measurement SET median = median + 1 WHERE race = (SELECT max(race) FROM "
		"measurement)",
		"UPDATE measurement SET ratio = ratio + 1 WHERE race = (SELECT max(race) FROM "
		"measurement)",
		"INSERT INTO superseded SELECT race, variant FROM measurement WHERE race = "
		"(SELECT max(race) FROM measurement)",
		"UPDATE race SET power_mw = power_mw + 1",
		"UPDATE race SET stage = 6",
		"UPDATE scenario SET split = 'heldout' WHERE id = 2",
		"UPDATE scenario SET steps = 7 WHERE id = 2",
		"UPDATE scenario SET weight = 1 WHERE id = 2",
		"UPDATE work SET flops = flops + 1",
		"UPDATE control SET ratio = 1500000",
		"UPDATE device SET units = 131",
		"UPDATE device SET l2_bytes = 1",
		"UPDATE run SET dram_gbps = 1 WHERE id = 2",
		"UPDATE ceiling SET value = 1",
		"UPDATE bridge SET new = 'd'",
		"UPDATE family SET text = 'X=2' WHERE id = 1",
		"UPDATE choice SET segments = 77 WHERE id = 1",
		"UPDATE code SET sources = sources || '1'",
		"UPDATE build SET flags = flags || ' -DX'",
		"UPDATE ending SET stopped = 'slow' WHERE outcome = 'ok'",
		"DELETE FROM measurement WHERE race = (SELECT max(race) FROM measurement)",
		"UPDATE seal SET hash = upper(hash)",
		"UPDATE seal SET device = 7",
	};
	size_t n;
	unsigned char *whole = bytes_of("sealed.sqlite", &n);
	char place[128];
	const char *path = stays(place, "edited.sqlite");
	(void)state;
	write_bytes(path, whole, n);
	assert_int_equal(find(path, 0, 1), SAME);
	for (size_t i = 0; i < COUNT(edits); i++) {
		unsigned long long none;
		write_bytes(path, whole, n);
		struct store *s = store_open(path, 0);
		assert_non_null(s);
		assert_true(store_query(s, "PRAGMA foreign_keys = OFF", NULL, NULL));
		assert_true(store_query(s, edits[i], NULL, NULL));
		store_close(s);
		quiet();
		const int ok = check(path, &none);
		if (loud() != 1 || ok || !strstr(said, "damaged"))
			fail_msg("%s: %s", edits[i], ok ? "not noticed" : said);
	}
	free(whole);
}

/* A write by attune removes the seal; reading, and writing what is there, does not. */
static void writes_remove_the_seal(void **state)
{
	size_t n;
	unsigned char *whole = bytes_of("sealed.sqlite", &n);
	char place[128];
	const char *path = stays(place, "written.sqlite");
	(void)state;
	write_bytes(path, whole, n);
	free(whole);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	struct scenario sc = scenario_of("q1s1k");
	assert_int_equal(store_scenario(s, &sc), 1); /* as it is */
	assert_string_equal(ask(s, "SELECT count(*) FROM seal"), "1;");
	sc.weight = 9;
	assert_int_equal(store_scenario(s, &sc), 1);
	scenario_done(&sc);
	assert_string_equal(ask(s, "SELECT count(*) FROM seal"), "0;");
	assert_int_equal(store_check(s), 1);
	struct compacted gone;
	assert_int_equal(store_compact(s, 0, &gone), 1);
	assert_string_equal(ask(s, "SELECT count(*) FROM seal"), "1;");
	assert_int_equal(store_check(s), 1);
	store_close(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(flipped_bits),
		cmocka_unit_test(lost_pages),
		cmocka_unit_test(every_value_is_sealed),
		cmocka_unit_test(writes_remove_the_seal),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("damage", tests, make_all, remove_folder);
}
