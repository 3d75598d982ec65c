/* Replies to pings, and fails in every way that a host has to survive. */

#include "sinew.h"

enum {
    PING = 200,
    PONG = 201,
    STOP = 202,
    TRAP = 203,
    SLEEP_TEST = 204,
    RECURSE = 205,
    SPIN = 206,
    WILD_POINTER = 207,
    RECURSE_WITH_LOCALS = 208,
};

/* Fills the call stack and leaves the stack in linear memory alone. It does not end: no actor has id 0. */
__attribute__((noinline, disable_tail_calls)) static uint32_t recurse(uint32_t depth) {
    return mk_self() == 0 ? depth : recurse(depth + 1) + 1;
}

/* Fills the stack in linear memory, which lies below the data: it traps at address 0. */
__attribute__((noinline, disable_tail_calls)) static uint32_t recurse_with_locals(uint32_t depth) {
    volatile uint32_t locals[256];
    locals[depth % 256] = depth;
    return mk_self() == 0 ? depth : recurse_with_locals(depth + 1) + locals[depth % 256];
}

/* The functions below are not inlined, so that backtraces name them. */

__attribute__((noinline)) static void trap(void) {
    __builtin_trap();
}

__attribute__((noinline)) static void spin(void) {
    for (volatile uint32_t turns = 0;; turns++) {
    }
}

__attribute__((noinline)) static void write_to_the_end_of_the_address_space(void) {
    *(volatile uint32_t *)0xFFFFFFF0u = 1;
}

EXPORT(handle_message)
int32_t handle_message(uint32_t kind, actor_id source, const void *payload, uint32_t size) {
    switch (kind) {
    case PING:
        mk_send(source, PONG, payload, size);
        return 1;
    case STOP:
        return 0;
    case TRAP:
        trap();
        return 1;
    case SLEEP_TEST:
        if (mk_sleep_ms(50) == 0) {
            mk_send(source, PONG, "slept", 5);
        } else {
            mk_send(source, PONG, "failed", 6);
        }
        return 1;
    case RECURSE:
        mk_send_u32(source, PONG, recurse(0));
        return 1;
    case SPIN:
        spin();
        return 1;
    case WILD_POINTER:
        write_to_the_end_of_the_address_space();
        return 1;
    case RECURSE_WITH_LOCALS:
        mk_send_u32(source, PONG, recurse_with_locals(0));
        return 1;
    default:
        return 1;
    }
}
