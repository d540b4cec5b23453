//! Every misbehaving guest of `tests/guests`, run in the real sandbox: what each does harms its own deliveries and nobody
//! else's. A fixture without a test of its name fails the build.

mod bad_input;
mod compiling;
mod contained;
mod floods;
mod frozen;
mod handlers;
mod loading;
mod opening;
mod participants;
mod policies;
mod provisioning;
mod reaching;
mod serving;
mod sources;
pub mod support;
mod tables;
mod tls;

#[allow(unused_imports, reason = "named so that the check below finds them")]
use {
    contained::*, floods::*, frozen::*, handlers::*, loading::*, opening::*, participants::*, policies::*,
    provisioning::*, reaching::*, serving::*, sources::*, tables::*, tls::*,
};

macro_rules! has_a_test {
    ($name:ident) => {
        #[allow(unused_imports)]
        use self::$name as _;
    };
}
waybill_tests::for_each_guest!(has_a_test);
