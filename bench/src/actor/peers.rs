//! The same shapes in other libraries, each as its documentation has it done.

pub(super) mod actix;
pub(super) mod kameo;
pub(super) mod ractor;

/// Runs `body` as a task on two workers, as the libraries that are built on tokio are used.
fn on_tokio<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("the system can start threads");
    let returned = runtime.block_on(async { tokio::spawn(body).await.expect("it returns") });
    runtime.shutdown_background();
    returned
}
