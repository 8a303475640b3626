//! binhop-hw
