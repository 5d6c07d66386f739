/* Three RTU devices on one line, by libmodbus: a foreign server for the gateway's tests.
 *
 *     rtu_three_units TTY
 *
 * Each unit is a context of its own that hears all that is said on the line, the other units' replies too, as on a real
 * bus. Between them and the terminal stands a hub that only copies bytes. Unit u holds u * 1000 + a in holding register a
 * and u * 1000 + 500 + a in input register a, for a below 100.
 *
 * Prints "libmodbus VERSION listening". Ends by signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <modbus.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum { UNITS = 3, REGISTERS = 100 };

static const int unit_ids[UNITS] = {1, 2, 17};
static int unit_fds[UNITS];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, modbus_strerror(errno));
    exit(1);
}

static void *unit(void *argument) {
    const int index = *(int *)argument, id = unit_ids[index];
    /* The device is never opened: the context speaks through the hub. */
    modbus_t *context = modbus_new_rtu("/dev/null", 19200, 'E', 8, 1);
    modbus_mapping_t *map = modbus_mapping_new(0, 0, REGISTERS, REGISTERS);
    if (context == NULL || map == NULL || modbus_set_slave(context, id) != 0) fail("unit");
    for (int a = 0; a < REGISTERS; a++) {
        map->tab_registers[a] = (uint16_t)(id * 1000 + a);
        map->tab_input_registers[a] = (uint16_t)(id * 1000 + 500 + a);
    }
    modbus_set_socket(context, unit_fds[index]);
    uint8_t request[MODBUS_RTU_MAX_ADU_LENGTH];
    for (;;) {
        int length = modbus_receive(context, request);
        if (length > 0) modbus_reply(context, request, length, map);
        if (length < 0 && errno == ECONNRESET) return NULL;
    }
}

static void put(int fd, const uint8_t *bytes, ssize_t count) {
    while (count > 0) {
        ssize_t done = write(fd, bytes, (size_t)count);
        if (done <= 0) return;
        bytes += done;
        count -= done;
    }
}

int main(int argc, char **argv) {
    static int indices[UNITS];
    if (argc != 2) return 2;
    int line = open(argv[1], O_RDWR | O_NOCTTY);
    struct termios raw;
    if (line < 0 || tcgetattr(line, &raw) != 0) fail(argv[1]);
    cfmakeraw(&raw);
    if (tcsetattr(line, TCSANOW, &raw) != 0) fail(argv[1]);

    struct pollfd ends[UNITS + 1] = {{.fd = line, .events = POLLIN}};
    for (int i = 0; i < UNITS; i++) {
        int pair[2];
        pthread_t thread;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) fail("socketpair");
        unit_fds[i] = pair[1];
        indices[i] = i;
        ends[i + 1] = (struct pollfd){.fd = pair[0], .events = POLLIN};
        if (pthread_create(&thread, NULL, unit, &indices[i]) != 0) fail("thread");
    }
    printf("libmodbus %s listening\n", LIBMODBUS_VERSION_STRING);
    fflush(stdout);
    for (;;) {
        if (poll(ends, UNITS + 1, -1) < 0) fail("poll");
        for (int i = 0; i <= UNITS; i++) {
            uint8_t bytes[512];
            if (!(ends[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
            ssize_t count = read(ends[i].fd, bytes, sizeof bytes);
            if (count <= 0) return 0;
            for (int other = 0; other <= UNITS; other++)
                if (other != i) put(ends[other].fd, bytes, count);
        }
    }
}
