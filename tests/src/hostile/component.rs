//! Components changed by hand, byte by byte: what no toolchain makes, a stranger may still send.

/// Section of a component that holds a core module.
const CORE_MODULE: u8 = 1;
/// Section of a component that holds core instances.
const CORE_INSTANCE: u8 = 2;

/// A section: its id, its size, its content.
pub fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &number(content.len()), content].concat()
}

/// A whole number as WebAssembly writes it (LEB128).
pub fn number(mut left: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (left & 0x7f) as u8;
        left >>= 7;
        if left == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// The component with one more core module, which is compiled and not instantiated.
pub fn with_idle_module(component: &[u8], module: &[u8]) -> Vec<u8> {
    [component, &section(CORE_MODULE, module)].concat()
}

/// The component with one more core module, which is instantiated with it and has no imports.
pub fn with_core_module(component: &[u8], module: &[u8]) -> Vec<u8> {
    let modules = u32::try_from(top_level_modules(component)).unwrap_or(u32::MAX);
    // One instance: 0x00 instantiates a module by its index, with no arguments.
    let instance = [&[1, 0][..], &number(modules as usize), &[0]].concat();
    [component, &section(CORE_MODULE, module), &section(CORE_INSTANCE, &instance)].concat()
}

/// How many core modules the component holds at its top level: the index of the next.
fn top_level_modules(component: &[u8]) -> usize {
    let mut count = 0;
    let mut at = 8;
    while let Some(&id) = component.get(at) {
        let (mut size, mut shift) = (0_usize, 0);
        loop {
            at += 1;
            let Some(&byte) = component.get(at) else { return count };
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        at += 1 + size;
        count += usize::from(id == CORE_MODULE);
    }
    count
}

/// A core module that grows its table for as long as it is let, in its start function:
/// `(table 1 funcref) (func (loop ref.null func  i32.const 10000  table.grow 0  i32.const -1  i32.ne  br_if 0) unreachable) (start 0)`.
pub fn table_bomb() -> Vec<u8> {
    let body: &[u8] = &[
        0x00, 0x03, 0x40, 0xd0, 0x70, 0x41, 0x90, 0xce, 0x00, 0xfc, 0x0f, 0x00, 0x41, 0x7f, 0x47, 0x0d, 0x00, 0x0b,
        0x00, 0x0b,
    ];
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 0, 0]),
        section(3, &[1, 0]),
        section(4, &[1, 0x70, 0, 1]),
        section(8, &[0]),
        section(10, &[&[1][..], &number(body.len()), body].concat()),
    ]
    .concat()
}

/// A core module that keeps a compiler busy: long chains of branches over a thousand locals.
pub fn slow_to_compile() -> Vec<u8> {
    const LOCALS: usize = 1_024;
    const FUNCTIONS: usize = 12;
    // 1,024 locals of type i64.
    let mut body = vec![1, 0x80, 0x08, 0x7e];
    for local in 0..LOCALS {
        for other in 0..30 {
            let (a, b) = (number(local), number((local * 31 + other * 97) % LOCALS));
            // local.get a; local.get b; i64.add; local.tee a; i64.eqz; if; local.get b; local.set a; end
            body.extend(
                [&[0x20][..], &a, &[0x20], &b, &[0x7c, 0x22], &a, &[0x50, 0x04, 0x40, 0x20], &b, &[0x21], &a, &[0x0b]]
                    .concat(),
            );
        }
    }
    body.push(0x0b);
    let one = [number(body.len()), body].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 0, 0]),
        section(3, &[number(FUNCTIONS), vec![0; FUNCTIONS]].concat()),
        section(10, &[number(FUNCTIONS), one.repeat(FUNCTIONS)].concat()),
    ]
    .concat()
}
