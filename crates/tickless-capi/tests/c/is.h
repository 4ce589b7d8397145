/* Comparisons that are counted and named, for the test programs. */
#include <stdio.h>

#define IS(got, wanted) is(__LINE__, #got, (long long)(got), (long long)(wanted))

static int faults;

static void is(int line, const char *text, long long got, long long wanted) {
    if (got != wanted) {
        printf("line %d: %s is %lld, not %lld\n", line, text, got, wanted);
        faults++;
    }
}
