# The image of `make image`, which lays out its files in bin/image, the build context: the binary, gateway.toml, and the
# plugins compiled for this architecture. They belong to root, so the gateway can read them as any user, and change none, apart from
# the folder for a volume that keeps its state. Volumes may be writable by other users: the gateway makes a folder of its own in it.
FROM scratch
COPY . /
COPY --chown=65532:65532 var/empty /var/lib/sluice
USER 65532:65532
ENV SLUICE_CONFIG=/etc/sluice/gateway.toml SLUICE_CACHE=/var/cache/sluice STATE_DIRECTORY=/var/lib/sluice/state SLUICE_LISTEN=:8080
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/sluice"]
CMD ["serve"]
HEALTHCHECK CMD ["/usr/local/bin/sluice", "healthcheck"]
