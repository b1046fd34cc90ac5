//! Does nothing: the features of its dependencies are what counts.

fn main() {}
