//! As much of cudarc as the loading example and the documents use, with the signatures of cudarc 0.18.1.
//!
//! It calls the library that tests build from libcuda.c, in cudarc's order. Left out are the events by which
//! cudarc orders streams, and repeated calls of `cuCtxSetCurrent`.

pub mod driver;

pub mod nvrtc {
    //! Images of modules.

    use std::path::PathBuf;

    /// An image: a text, or the path of a file.
    #[derive(Debug, Clone)]
    pub struct Ptx(pub(crate) PtxKind);

    #[derive(Debug, Clone)]
    pub(crate) enum PtxKind {
        Src(String),
        File(PathBuf),
    }

    impl Ptx {
        pub fn from_file<P: Into<PathBuf>>(path: P) -> Self {
            Self(PtxKind::File(path.into()))
        }

        pub fn from_src<S: Into<String>>(src: S) -> Self {
            Self(PtxKind::Src(src.into()))
        }
    }
}
