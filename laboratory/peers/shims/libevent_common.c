#define PREFIX peer_libevent_common
#define COMMON
#include "libevent.h"
