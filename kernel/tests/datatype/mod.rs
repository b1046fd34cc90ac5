//! Datatypes against their definition: random types, made both by the kernel and by a naive
//! interpreter of type maps.

mod golden;
mod hostile;
mod laws;
mod stream;
