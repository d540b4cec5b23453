//! `net` and `net-blocking`: the same connections, waited for beside other work or by the whole instance.

use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::component::{Accessor, HasSelf, Resource, ResourceTable};
use waybill_bindings::api::net_types::{ConnectOptions, ConnectionInfo, NetError, TlsOptions};
use waybill_bindings::api::{net, net_blocking, net_types};

use super::context::EndpointContext;
use super::state::InstanceState;
use super::tls::tls_client;
use crate::meters::Bound;
use crate::net::{Connection, time_to_connect};

type Answer<T> = wasmtime::Result<Result<T, NetError>>;

/// The connection behind a handle of either interface: the table holds ours, the handle's type is the interface's own.
fn get<R: 'static>(table: &ResourceTable, handle: &Resource<R>) -> wasmtime::Result<Connection> {
    Ok(table.get(&Resource::<Connection>::new_borrow(handle.rep()))?.clone())
}

fn put<R: 'static>(state: &mut InstanceState, connection: Connection) -> Answer<Resource<R>> {
    Ok(match state.table.push(connection) {
        Ok(handle) => Ok(Resource::new_own(handle.rep())),
        Err(_) => {
            state.context.meters.hit(Bound::Handles);
            Err(NetError::Limit("too many open handles: drop some".to_owned()))
        }
    })
}

fn remove<R: 'static>(table: &mut ResourceTable, handle: Resource<R>) -> wasmtime::Result<()> {
    table.delete(Resource::<Connection>::new_own(handle.rep()))?;
    Ok(())
}

async fn connect(
    context: &EndpointContext,
    slots: Arc<Semaphore>,
    to: &str,
    options: &ConnectOptions,
) -> Result<Connection, NetError> {
    let deadline = time_to_connect(Some(options.timeout));
    // Refused, not waited for: an instance that waits for itself to close a connection would wait for ever.
    let permit = slots.try_acquire_owned().map_err(|_| {
        context.meters.hit(Bound::Connections);
        NetError::Limit(format!("an instance may have {} connections: close one first", context.limits.connections))
    })?;
    let connected = async {
        let tls = match &options.tls {
            Some(tls) => Some(tls_client(context, tls, deadline).await?),
            None => None,
        };
        Connection::connect(&context.policy, to, options, tls, deadline, permit).await
    };
    connected.await.inspect_err(|error| note(context, error))
}

async fn start_tls(
    context: &EndpointContext,
    connection: &Connection,
    options: &TlsOptions,
    timeout: Option<u32>,
) -> Result<(), NetError> {
    let deadline = time_to_connect(timeout);
    let started = async { connection.start_tls(tls_client(context, options, deadline).await?, deadline).await };
    started.await.inspect_err(|error| note(context, error))
}

fn note(context: &EndpointContext, error: &NetError) {
    if let NetError::Denied(why) = error {
        context.denied(why);
    }
}

impl net_types::Host for InstanceState {}

impl net::Host for InstanceState {}

impl net::HostConnectionWithStore<InstanceState> for HasSelf<InstanceState> {
    async fn connect(
        accessor: &Accessor<InstanceState, Self>,
        to: String,
        options: ConnectOptions,
    ) -> Answer<Resource<net::Connection>> {
        let (context, slots) = accessor.with(|mut access| {
            let state = access.get();
            (Arc::clone(&state.context), Arc::clone(&state.connections))
        });
        match connect(&context, slots, &to, &options).await {
            Ok(connection) => accessor.with(|mut access| put(access.get(), connection)),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn write(
        accessor: &Accessor<InstanceState, Self>,
        handle: Resource<net::Connection>,
        data: Vec<u8>,
        timeout: Option<u32>,
    ) -> Answer<()> {
        let connection = accessor.with(|mut access| get(&access.get().table, &handle))?;
        Ok(connection.write(&data, timeout).await)
    }

    async fn read(
        accessor: &Accessor<InstanceState, Self>,
        handle: Resource<net::Connection>,
        min: u32,
        max: u32,
        timeout: Option<u32>,
    ) -> Answer<Vec<u8>> {
        let connection = accessor.with(|mut access| get(&access.get().table, &handle))?;
        Ok(connection.read(min, max, timeout).await.map(Into::into))
    }

    async fn start_tls(
        accessor: &Accessor<InstanceState, Self>,
        handle: Resource<net::Connection>,
        tls: TlsOptions,
        timeout: Option<u32>,
    ) -> Answer<()> {
        let (connection, context) = accessor.with(|mut access| {
            let state = access.get();
            get(&state.table, &handle).map(|connection| (connection, Arc::clone(&state.context)))
        })?;
        Ok(start_tls(&context, &connection, &tls, timeout).await)
    }

    async fn finish(accessor: &Accessor<InstanceState, Self>, handle: Resource<net::Connection>) -> Answer<()> {
        let connection = accessor.with(|mut access| get(&access.get().table, &handle))?;
        Ok(connection.finish().await)
    }
}

impl net::HostConnection for InstanceState {
    fn info(&mut self, handle: Resource<net::Connection>) -> wasmtime::Result<ConnectionInfo> {
        Ok(get(&self.table, &handle)?.info())
    }

    fn drop(&mut self, handle: Resource<net::Connection>) -> wasmtime::Result<()> {
        remove(&mut self.table, handle)
    }
}

impl net_blocking::Host for InstanceState {}

impl net_blocking::HostConnection for InstanceState {
    async fn connect(&mut self, to: String, options: ConnectOptions) -> Answer<Resource<net_blocking::Connection>> {
        match connect(&self.context, Arc::clone(&self.connections), &to, &options).await {
            Ok(connection) => put(self, connection),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn write(
        &mut self,
        handle: Resource<net_blocking::Connection>,
        data: Vec<u8>,
        timeout: Option<u32>,
    ) -> Answer<()> {
        Ok(get(&self.table, &handle)?.write(&data, timeout).await)
    }

    async fn read(
        &mut self,
        handle: Resource<net_blocking::Connection>,
        min: u32,
        max: u32,
        timeout: Option<u32>,
    ) -> Answer<Vec<u8>> {
        Ok(get(&self.table, &handle)?.read(min, max, timeout).await.map(Into::into))
    }

    async fn start_tls(
        &mut self,
        handle: Resource<net_blocking::Connection>,
        tls: TlsOptions,
        timeout: Option<u32>,
    ) -> Answer<()> {
        let connection = get(&self.table, &handle)?;
        Ok(start_tls(&self.context, &connection, &tls, timeout).await)
    }

    async fn finish(&mut self, handle: Resource<net_blocking::Connection>) -> Answer<()> {
        Ok(get(&self.table, &handle)?.finish().await)
    }

    async fn info(&mut self, handle: Resource<net_blocking::Connection>) -> wasmtime::Result<ConnectionInfo> {
        Ok(get(&self.table, &handle)?.info())
    }

    async fn drop(&mut self, handle: Resource<net_blocking::Connection>) -> wasmtime::Result<()> {
        remove(&mut self.table, handle)
    }
}
