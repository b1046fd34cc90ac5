//! The requests to a manager, and the meaning of its answers, in either version.

use super::error::{AnswerFault, PmiError};
use super::message::{Message, MessageForm};

/// A version of PMI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 1.1: lines of words.
    One,
    /// 2.0: counted messages after the first.
    Two,
}

impl Version {
    /// The form of its messages behind the greeting, which is a line in both.
    pub const fn form(self) -> MessageForm {
        match self {
            Self::One => MessageForm::Line,
            Self::Two => MessageForm::Counted,
        }
    }

    /// Its number and the one behind the point.
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::One => (1, 1),
            Self::Two => (2, 0),
        }
    }
}

/// A command, told without the words of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PmiRequest<'a> {
    /// The question which version is spoken.
    Greet,
    /// Introduces this process: version 2 alone.
    Introduce {
        /// The job, as the environment names it.
        job: &'a str,
        /// The rank.
        rank: u32,
    },
    /// Asks how long keys and values may be: version 1 alone.
    Limits,
    /// The name of the job's store.
    Store,
    /// Puts a value, for others to get behind a fence.
    Put {
        /// The store.
        store: &'a str,
        /// Under what.
        key: &'a str,
        /// The value.
        value: &'a str,
    },
    /// Gets a value.
    Get {
        /// The store.
        store: &'a str,
        /// The key that it was put under.
        key: &'a str,
    },
    /// Waits for all ranks.
    Fence,
    /// Leaves in order.
    Finalize,
    /// Ends the job. Is not answered.
    Abort {
        /// The exit code, for managers that take one.
        code: i32,
    },
}

impl PmiRequest<'_> {
    /// The command's name, which is also shown in errors.
    pub const fn command(&self, version: Version) -> &'static str {
        match (version, self) {
            (_, Self::Greet) => "init",
            (_, Self::Introduce { .. }) => "fullinit",
            (_, Self::Limits) => "get_maxes",
            (Version::One, Self::Store) => "get_my_kvsname",
            (Version::Two, Self::Store) => "job-getid",
            (Version::One, Self::Put { .. }) => "put",
            (Version::Two, Self::Put { .. }) => "kvs-put",
            (Version::One, Self::Get { .. }) => "get",
            (Version::Two, Self::Get { .. }) => "kvs-get",
            (Version::One, Self::Fence) => "barrier_in",
            (Version::Two, Self::Fence) => "kvs-fence",
            (_, Self::Finalize) => "finalize",
            (_, Self::Abort { .. }) => "abort",
        }
    }

    /// The name of its answer; `None` if there is none.
    pub const fn answer(&self, version: Version) -> Option<&'static str> {
        Some(match (version, self) {
            (_, Self::Abort { .. }) => return None,
            (_, Self::Greet) => "response_to_init",
            (_, Self::Introduce { .. }) => "fullinit-response",
            (_, Self::Limits) => "maxes",
            (Version::One, Self::Store) => "my_kvsname",
            (Version::Two, Self::Store) => "job-getid-response",
            (Version::One, Self::Put { .. }) => "put_result",
            (Version::Two, Self::Put { .. }) => "kvs-put-response",
            (Version::One, Self::Get { .. }) => "get_result",
            (Version::Two, Self::Get { .. }) => "kvs-get-response",
            (Version::One, Self::Fence) => "barrier_out",
            (Version::Two, Self::Fence) => "kvs-fence-response",
            (Version::One, Self::Finalize) => "finalize_ack",
            (Version::Two, Self::Finalize) => "finalize-response",
        })
    }

    /// The form that both the command and its answer have.
    pub fn form(&self, version: Version) -> MessageForm {
        if *self == Self::Greet { MessageForm::Line } else { version.form() }
    }

    /// The command as a message.
    pub fn message(&self, version: Version) -> Message {
        let message = Message::new(self.command(version));
        match (version, *self) {
            (_, Self::Greet) => {
                let (number, behind) = version.numbers();
                message.with("pmi_version", number).with("pmi_subversion", behind)
            }
            (_, Self::Introduce { job, rank }) => {
                message.with("pmijobid", job).with("pmirank", rank).with("threaded", "FALSE")
            }
            (Version::One, Self::Put { store, key, value }) => {
                message.with("kvsname", store).with("key", key).with("value", value)
            }
            (Version::Two, Self::Put { key, value, .. }) => message.with("key", key).with("value", value),
            (Version::One, Self::Get { store, key }) => message.with("kvsname", store).with("key", key),
            (Version::Two, Self::Get { store, key }) => {
                message.with("jobid", store).with("srcid", -1).with("key", key)
            }
            (Version::One, Self::Abort { code }) => message.with("exitcode", code),
            (Version::Two, Self::Abort { code }) => message.with("isworld", "TRUE").with("exitcode", code),
            (_, Self::Limits | Self::Store | Self::Fence | Self::Finalize) => message,
        }
    }

    /// Judges an answer: whether it is the one that is due, and reports success.
    ///
    /// # Errors
    /// [`AnswerFault::Unexpected`], [`AnswerFault::Refused`], [`AnswerFault::Absent`].
    pub fn judge(&self, version: Version, answer: &Message) -> Result<(), PmiError> {
        let command = self.command(version);
        let found = || answer.to_string();
        if let Some(expected) = self.answer(version).filter(|expected| *expected != answer.command()) {
            return Err(AnswerFault::Unexpected { expected, found: found() }.of(command));
        }
        let is_fine = answer.field("rc").is_none_or(|code| code == "0");
        let is_found = |name| answer.field(name).is_none_or(|value| value.eq_ignore_ascii_case("true"));
        match *self {
            Self::Get { key, .. } if !is_fine || !is_found("found") || !is_found("flag") => {
                Err(AnswerFault::Absent { key: key.into() }.of(command))
            }
            _ if !is_fine => Err(AnswerFault::Refused { found: found() }.of(command)),
            Self::Greet if answer.field("pmi_version") != Some(&version.numbers().0.to_string()) => {
                Err(AnswerFault::Refused { found: found() }.of(command))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(request: &PmiRequest<'_>, version: Version) -> String {
        let bytes = request.message(version).encode(request.form(version)).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn golden_commands() {
        let (store, key, value) = ("kvs_1", "a", "b");
        for (request, one, two) in [
            (
                PmiRequest::Greet,
                "cmd=init pmi_version=1 pmi_subversion=1\n",
                "cmd=init pmi_version=2 pmi_subversion=0\n",
            ),
            (PmiRequest::Store, "cmd=get_my_kvsname\n", "    14cmd=job-getid;"),
            (
                PmiRequest::Put { store, key, value },
                "cmd=put kvsname=kvs_1 key=a value=b\n",
                "    26cmd=kvs-put;key=a;value=b;",
            ),
            (
                PmiRequest::Get { store, key },
                "cmd=get kvsname=kvs_1 key=a\n",
                "    39cmd=kvs-get;jobid=kvs_1;srcid=-1;key=a;",
            ),
            (PmiRequest::Fence, "cmd=barrier_in\n", "    14cmd=kvs-fence;"),
            (PmiRequest::Finalize, "cmd=finalize\n", "    13cmd=finalize;"),
            (
                PmiRequest::Abort { code: 3 },
                "cmd=abort exitcode=3\n",
                "    34cmd=abort;isworld=TRUE;exitcode=3;",
            ),
        ] {
            assert_eq!(
                (bytes(&request, Version::One).as_str(), bytes(&request, Version::Two).as_str()),
                (one, two)
            );
        }
        assert_eq!(bytes(&PmiRequest::Limits, Version::One), "cmd=get_maxes\n");
        let introduce = PmiRequest::Introduce { job: "0", rank: 1 };
        assert_eq!(
            bytes(&introduce, Version::Two),
            "    49cmd=fullinit;pmijobid=0;pmirank=1;threaded=FALSE;"
        );
    }

    fn verdict(request: &PmiRequest<'_>, version: Version, said: &str) -> String {
        let answer = Message::take(request.form(version), &mut said.as_bytes().to_vec()).unwrap().unwrap();
        request.judge(version, &answer).map_or_else(|error| error.to_string(), |()| "fine".into())
    }

    #[test]
    fn answers_are_judged() {
        let get = PmiRequest::Get { store: "s", key: "k" };
        for (request, version, said, expected) in [
            (
                PmiRequest::Greet,
                Version::One,
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                "fine",
            ),
            (PmiRequest::Greet, Version::Two, "cmd=response_to_init rc=0 pmi_version=1\n", "`init`: refused"),
            (
                PmiRequest::Greet,
                Version::One,
                "cmd=response_to_init rc=14 pmi_version=2\n",
                "`init`: refused",
            ),
            (PmiRequest::Fence, Version::One, "cmd=barrier_out\n", "fine"),
            (PmiRequest::Fence, Version::One, "cmd=put_result rc=0\n", "where `barrier_out` was due"),
            (
                PmiRequest::Fence,
                Version::Two,
                "    32cmd=kvs-fence-response;rc=14;x=;",
                "refused: cmd=kvs-fence-response",
            ),
            (get, Version::One, "cmd=get_result rc=0 msg=success value=1\n", "fine"),
            (
                get,
                Version::One,
                "cmd=get_result rc=-1 msg=key_k_not_found value=unknown\n",
                "no rank has put k",
            ),
            (get, Version::Two, "    45cmd=kvs-get-response;rc=0;found=TRUE;value=1;", "fine"),
            (get, Version::Two, "    38cmd=kvs-get-response;rc=0;found=FALSE;", "no rank has put k"),
            (get, Version::Two, "    37cmd=kvs-get-response;rc=0;flag=FALSE;", "no rank has put k"),
        ] {
            let verdict = verdict(&request, version, said);
            assert!(verdict.contains(expected), "{said}: {verdict}");
        }
    }
}
