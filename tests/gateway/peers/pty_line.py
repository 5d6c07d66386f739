#!/usr/bin/env python3
"""A serial line of two pseudo terminals: what is written into one end comes out of the other.

    pty_line.py NEAR FAR

NEAR and FAR become symbolic links to the ends' terminals. Prints "line up". Each line of standard input is an order:
    pull     close the near end and take its link away, as unplugging an adapter does: a link that stayed would soon
             point at a terminal of somebody else, since their numbers are used again
    plug     open another one in its place
    count    say how many bytes came from the near end so far
and is answered by one line once it is done. Ends with its standard input.
"""
import os
import selectors
import sys
import tty


def end(link):
    """A new terminal behind a link; gives our side of it, and the other side held open so that a hang-up is no end."""
    master, slave = os.openpty()
    tty.setraw(slave)
    temporary = f"{link}.new"
    os.symlink(os.ttyname(slave), temporary)
    os.replace(temporary, link)
    os.set_blocking(master, False)
    return master, slave


def main():
    near_link, far_link = sys.argv[1:3]
    near, far = end(near_link), end(far_link)
    ears = selectors.DefaultSelector()
    ears.register(near[0], selectors.EVENT_READ)
    ears.register(far[0], selectors.EVENT_READ)
    ears.register(sys.stdin.buffer.raw, selectors.EVENT_READ)
    print("line up", flush=True)
    count = 0
    while True:
        for key, _ in ears.select():
            if key.fileobj is sys.stdin.buffer.raw:
                order = sys.stdin.buffer.raw.readline().decode().strip()
                if not order:
                    return
                if order == "pull":
                    ears.unregister(near[0])
                    os.unlink(near_link)
                    os.close(near[1])
                    os.close(near[0])
                    near = None
                elif order == "plug":
                    near = end(near_link)
                    ears.register(near[0], selectors.EVENT_READ)
                print(count if order == "count" else order, flush=True)
                continue
            if near is None and key.fd != far[0]:
                continue
            try:
                heard = os.read(key.fd, 4096)
            except (BlockingIOError, OSError):
                continue
            other = near
            if near is not None and key.fd == near[0]:
                other = far
                count += len(heard)
            if other is not None and heard:
                try:
                    os.write(other[0], heard)
                except OSError:
                    pass  # A full or vanished end loses bytes, as a wire does.


main()
