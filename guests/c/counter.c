/* A counter that keeps its value across a reload.
 *
 * Built twice: counter_v1 and counter_v2 differ in the kind of their replies, so that a test sees
 * which of them has answered.
 */

#include "sinew.h"

#ifndef REPLY_KIND
#error "define REPLY_KIND: 11 for version 1, 12 for version 2"
#endif

enum {
    ADD = 1, /* payload: u32 */
    GET = 2,
};

static uint32_t value;

EXPORT(handle_message)
int32_t handle_message(uint32_t kind, actor_id source, const void *payload, uint32_t size) {
    if (kind == ADD && size == sizeof value) {
        value += *(const uint32_t *)payload;
    } else if (kind == GET) {
        mk_send_u32(source, REPLY_KIND, value);
    }
    return 1;
}

/* Returns where the state lies: the address in the upper half, the size in the lower. */
EXPORT(on_save)
uint64_t on_save(void) {
    return (uint64_t)(uintptr_t)&value << 32 | sizeof value;
}

/* Takes the state of the previous instance. Non-zero refuses it. */
EXPORT(on_restore)
int32_t on_restore(const void *state, uint32_t size) {
    if (size != sizeof value) {
        return 1;
    }
    value = *(const uint32_t *)state;
    return 0;
}
