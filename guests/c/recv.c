/* Receives messages in a loop, by each of the three receiving calls, and reports every result.
 *
 * The first message chooses the call. From then on every receive is reported to the sender of that
 * message, as the same kind + 100 and a struct report. The loop ends with the first receive that
 * fails, and with a message of kind END_LOOP, which is reported too.
 */

#include "sinew.h"

enum {
    RECV = 1,
    RECV_FULL = 2,
    RECV_TIMEOUT = 3, /* payload: the timeout in milliseconds, i32 */
    END_LOOP = 9,
    REPORT = 100,
};

/* The room for a payload: small, so that tests can exceed it. */
#define CAPACITY 16

struct report {
    int32_t result;
    uint32_t kind;
    uint32_t size;
    uint32_t reserved;
    actor_id source; /* 0 from `mk_recv`, which does not tell */
    uint8_t payload[CAPACITY];
};

_Static_assert(sizeof(struct report) == 40, "tests read it by offset");

EXPORT(handle_message)
int32_t handle_message(uint32_t call, actor_id observer, const void *payload, uint32_t size) {
    if (call < RECV || call > RECV_TIMEOUT) {
        return 1;
    }
    int32_t timeout_ms = size == sizeof timeout_ms ? *(const int32_t *)payload : -1;
    for (;;) {
        struct report report = {0};
        switch (call) {
        case RECV:
            report.result = mk_recv(&report.kind, report.payload, CAPACITY, &report.size);
            break;
        case RECV_FULL:
            report.result =
                mk_recv_full(&report.kind, report.payload, CAPACITY, &report.size, &report.source);
            break;
        default:
            report.result = mk_recv_timeout(&report.kind, report.payload, CAPACITY, &report.size,
                                            &report.source, timeout_ms);
            break;
        }
        mk_send(observer, REPORT + call, &report, sizeof report);
        if (report.result != 0 || report.kind == END_LOOP) {
            return 1;
        }
    }
}
