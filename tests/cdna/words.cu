/* words.cu - dialect.cu as a compiler takes it. Where an answer is wrong, it gives up. */
#define simt_die(...)  __builtin_trap()
#define simt_dynamic() ((void *)simt_lds)
extern "C" __attribute__((shared)) char simt_lds[];
#include "../dialect/dialect.cu"
