#define PREFIX peer_libevent
#include "libevent.h"
