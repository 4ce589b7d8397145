#define PREFIX peer_tickless_timeout
#define TIMEOUT
#include "tickless_any.h"
