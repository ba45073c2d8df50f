# The image of Larder: one static binary, the authorities that it trusts, and nothing else.
#
#   docker build -t larder .                                   builds it, in the image of Rust
#   docker build -t larder --build-context build=dist .       takes what packaging/build and packaging/image have made

# With the compiler of that image: rust-toolchain.toml is not in the context.
FROM docker.io/library/rust:1.95-bookworm AS build
COPY . /larder
RUN cd /larder && packaging/build --out /built larder-static && packaging/image /built/larder-static /image

FROM scratch
COPY --from=build /image/root/ /
COPY --from=build --chown=65532:65532 /image/data/ /var/lib/larder/
WORKDIR /var/lib/larder
USER 65532:65532
ENV HOME=/var/lib/larder LARDER_STORE=/var/lib/larder/store
VOLUME /var/lib/larder
EXPOSE 8000 8001
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/usr/bin/larder", "health"]
ENTRYPOINT ["/usr/bin/larder"]
CMD ["serve"]
