//! binhop-os
