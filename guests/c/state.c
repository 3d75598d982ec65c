/* Saves and loads state that outlives the guest. Each request is answered with its kind + 100. */

#include "sinew.h"

enum {
    SAVE = 1, /* payload: the size of the key, u8, the key, the data; reply: the result, i32 */
    LOAD = 2, /* payload: a key; reply: the result, i32, and the data that was copied */
    REPLY = 100,
};

/* The room for loaded data: small, so that tests can exceed it. */
#define CAPACITY 64

static struct {
    int32_t result;
    uint8_t data[CAPACITY];
} reply;

EXPORT(handle_message)
int32_t handle_message(uint32_t kind, actor_id source, const void *payload, uint32_t size) {
    const char *bytes = payload;
    switch (kind) {
    case SAVE: {
        uint32_t key_size = size > 0 ? (uint8_t)bytes[0] : 0;
        int32_t result = -1;
        if (key_size < size) {
            result = mk_save_state(bytes + 1, key_size, bytes + 1 + key_size, size - 1 - key_size);
        }
        mk_send_u32(source, REPLY + kind, (uint32_t)result);
        break;
    }
    case LOAD:
        reply.result = mk_load_state(bytes, size, reply.data, CAPACITY);
        mk_send(source, REPLY + kind, &reply,
                sizeof reply.result + (reply.result > 0 ? (uint32_t)reply.result : 0));
        break;
    default:
        break;
    }
    return 1;
}
