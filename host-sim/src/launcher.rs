//! Input of the launcher `aldis-run`: its command line, host files and variables, read and checked.
//!
//! | module | what it holds |
//! |---|---|
//! | [`command_line`] | words to options, or to help |
//! | [`options`] | the options of a job and of its first program |
//! | [`programs`] | several programs in one job |
//! | [`hosts`] | where ranks run, and which ranks each host gets |
//! | [`tcp_options`] | what is said about TCP |

pub mod command_line;
pub mod hosts;
pub mod options;
pub mod programs;
pub mod tcp_options;
