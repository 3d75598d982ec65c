//! What all actors of one type have in common.

use std::any::type_name;

use crate::actor::Body;
use crate::process::ProcessRun;
use crate::run::Run;

pub(crate) struct Form {
    pub(crate) type_name: fn() -> &'static str,
    /// Bytes that its body takes, with the actor's state in it.
    pub(crate) size: usize,
}

impl Form {
    pub(crate) fn of_body<B: Body>() -> &'static Form {
        const { &Form { type_name: B::type_name, size: size_of::<Run<B>>() } }
    }

    pub(crate) fn of_process<M, F>() -> &'static Form {
        const { &Form { type_name: type_name::<F>, size: size_of::<ProcessRun<M, F>>() } }
    }
}
