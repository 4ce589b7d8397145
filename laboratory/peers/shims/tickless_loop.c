#define PREFIX peer_tickless_loop
#define LOOP
#include "tickless_any.h"
