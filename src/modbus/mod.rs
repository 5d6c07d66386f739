//! The words of the wire: unit ids, tables, addresses, frames.
//!
//! A dictionary and a codec, sans-IO: no socket, no clock, nothing but bytes in and bytes out. Sources: MODBUS
//! Application Protocol V1.1b3, MODBUS Messaging on TCP/IP V1.0b and MODBUS over Serial Line V1.02. Requests are `tokio-modbus`'s type; read replies
//! are views over the frame.

pub mod ascii;
mod envelope;
mod expected;
pub mod mbap;
mod reply;
mod request;
pub mod rtu;
mod speed;
mod words;

pub use envelope::Envelope;
pub use expected::{Expected, Shape};
pub use mbap::{Adu, LostSync, TransactionId};
pub use reply::{ReadReply, Reply, ReplyMismatch, encode_bits, encode_exception, encode_registers};
pub use request::{MAX_BITS_PER_WRITE, MAX_PDU_LEN, RequestError, encode_request, read_request};
pub use speed::LineSpeed;
pub use tokio_modbus::Request;
pub use words::{
    Address, AddressRange, MAX_BITS_PER_READ, MAX_REGISTERS_PER_READ, MAX_REGISTERS_PER_WRITE, Table, UnitId,
};
