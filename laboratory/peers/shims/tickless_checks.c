#define PREFIX peer_tickless_checks
#define CHECKS
#include "tickless_any.h"
