# Kymograph with its embedded data:
#   docker build -t kymograph .
#   docker run --rm -v "$PWD/runs:/work/runs" kymograph run depth
# On Linux torch comes with CUDA. For the CPU build, pass the options that PyTorch's install page gives:
#   docker build --build-arg TORCH_OPTIONS="--index-url ..." -t kymograph .
FROM python:3.11-slim

ARG TORCH_OPTIONS=""
# hadolint ignore=SC2086,DL3013
RUN pip install --no-cache-dir torch==2.13.0 $TORCH_OPTIONS

WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN pip install --no-cache-dir -c constraints.txt '.[studies]' \
    && useradd --create-home --uid 1000 researcher \
    && install -d -o researcher /work

USER 1000
WORKDIR /work
ENTRYPOINT ["kymograph"]
CMD ["--help"]
