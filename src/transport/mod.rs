//! Links to devices: connect, send bytes, receive bytes. A shell: the only room that opens field sockets.
