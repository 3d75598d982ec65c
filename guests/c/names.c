/* Registers, looks up and lists names and actors. Each request is answered with its kind + 100. */

#include "sinew.h"

enum {
    REGISTER = 1,       /* payload: a name; reply: the result, i32 */
    LOOKUP = 2,         /* payload: a name; reply: the id, u64 */
    REVERSE_LOOKUP = 3, /* payload: an id, u64; reply: the result, i32, and the buffer */
    NS_LIST = 4,        /* payload: a prefix; reply: the full size, u32, and the lines */
    LIST_ACTORS = 5,    /* reply: the ids, u64 each */
    NODE_NAME = 6,      /* reply: the result, i32, and the name */
    REPLY = 100,
};

/* The room for a name: small, so that tests can exceed it. */
#define NAME_CAPACITY 32
#define LIST_CAPACITY 4096
#define ACTORS_CAPACITY 256

static struct {
    int32_t result;
    char text[LIST_CAPACITY];
} reply;

static actor_id ids[ACTORS_CAPACITY];

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void send_reply(actor_id to, uint32_t kind, uint32_t text_size) {
    mk_send(to, REPLY + kind, &reply, sizeof reply.result + text_size);
}

EXPORT(handle_message)
int32_t handle_message(uint32_t kind, actor_id source, const void *payload, uint32_t size) {
    switch (kind) {
    case REGISTER:
        mk_send_u32(source, REPLY + kind, (uint32_t)mk_register(payload, size));
        break;
    case LOOKUP: {
        actor_id found = mk_lookup(payload, size);
        mk_send(source, REPLY + kind, &found, sizeof found);
        break;
    }
    case REVERSE_LOOKUP:
        if (size == sizeof(actor_id)) {
            reply.result = mk_reverse_lookup(*(const actor_id *)payload, reply.text, NAME_CAPACITY);
            send_reply(source, kind, NAME_CAPACITY);
        }
        break;
    case NS_LIST: {
        uint32_t full_size = 0;
        mk_ns_list(payload, size, reply.text, LIST_CAPACITY, &full_size);
        reply.result = (int32_t)full_size;
        send_reply(source, kind, smaller(full_size, LIST_CAPACITY));
        break;
    }
    case LIST_ACTORS: {
        uint32_t count = 0;
        if (mk_list_actors(ids, ACTORS_CAPACITY, &count) == 0) {
            mk_send(source, REPLY + kind, ids, smaller(count, ACTORS_CAPACITY) * sizeof ids[0]);
        } else {
            mk_send_u32(source, REPLY + kind, (uint32_t)-1);
        }
        break;
    }
    case NODE_NAME:
        reply.result = mk_node_name(reply.text, NAME_CAPACITY);
        send_reply(source, kind, reply.result < 0 ? 0 : smaller((uint32_t)reply.result, NAME_CAPACITY));
        break;
    default:
        break;
    }
    return 1;
}
