#define PREFIX peer_tickless_timer
#include "tickless_any.h"
